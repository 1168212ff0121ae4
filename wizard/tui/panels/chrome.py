"""What frames every screen: the line above with the sections, and the keys below."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.reactive import reactive
from textual.widgets import Static

from wizard.questions.question import SECTIONS
from wizard.tui.keys import SCREENS, Key


class SectionBar(Static):
    """The program's name and the sections; the current one is underlined as well as bright."""

    DEFAULT_CSS = """
    SectionBar { height: 2; padding: 0 1; border-bottom: solid $foreground 20%; }
    """
    COMPONENT_CLASSES = {"section-bar--name", "section-bar--past", "section-bar--current", "section-bar--ahead"}

    current: reactive[str] = reactive("")

    def __init__(self, current: str = "", title: str = ""):
        super().__init__(markup=False)
        self._title = title
        self.set_reactive(SectionBar.current, current)

    def render(self) -> Text:
        style = self.get_component_rich_style
        line = Text(no_wrap=True).append("autotrain-wizard", style("section-bar--name"))
        if self._title:
            return line.append("   ").append(self._title, style("section-bar--current"))
        line.append("   ")
        here = SECTIONS.index(self.current) if self.current in SECTIONS else -1
        for index, section in enumerate(SECTIONS):
            if index:
                line.append(" ─ ", style("section-bar--ahead"))
            name = "past" if index < here else "current" if index == here else "ahead"
            line.append(section, style(f"section-bar--{name}"))
        return line


class KeyHint(Static):
    """One key and what it does; a click does it too."""

    DEFAULT_CSS = """
    KeyHint { width: auto; padding: 0 2 0 0; }
    KeyHint:hover { background: $foreground 10%; }
    """
    COMPONENT_CLASSES = {"key-hint--key", "key-hint--label"}

    def __init__(self, key: Key):
        super().__init__(markup=False)
        self._key = key
        self.tooltip = key.help

    def render(self) -> Text:
        style = self.get_component_rich_style
        return Text().append(self._key.name, style("key-hint--key")).append(" " + self._key.label, style("key-hint--label"))

    async def on_click(self) -> None:
        await self.screen.run_action(self._key.action)


class KeyBar(Horizontal):
    """The keys of a screen, from the key table."""

    DEFAULT_CSS = """
    KeyBar { dock: bottom; height: 2; padding: 0 1; border-top: solid $foreground 20%; }
    """

    def __init__(self, screen: str):
        super().__init__()
        self._screen_name = screen

    def compose(self) -> ComposeResult:
        for key in SCREENS[self._screen_name]:
            if key.footer:
                yield KeyHint(key)
