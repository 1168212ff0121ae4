"""What all screens of the wizard share."""

from __future__ import annotations

from textual import on
from textual.screen import ModalScreen, Screen
from textual.worker import Worker


class WizardScreen(Screen):
    """A full screen. `-wide` is set from 100 columns on, where there is room for a second column."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]
    #: Its name in the table of keys.
    KEYS = ""

    @on(Worker.StateChanged)
    def _background(self, event: Worker.StateChanged) -> None:
        """Errors of a screen's background tasks go where those of the app's go."""
        self.app.worker_changed(event)

    def action_back(self) -> None:
        self.app.pop_screen()

    def action_help(self) -> None:
        from wizard.tui.screens.help import HelpScreen

        self.app.push_screen(HelpScreen(self.KEYS))


class WizardDialog(ModalScreen):
    """A small window over a screen; dismissed with None when nothing is to change."""

    def action_back(self) -> None:
        self.dismiss(None)
