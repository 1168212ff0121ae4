"""The one table of keys: it feeds dispatch, the footer, the help screen and the command palette."""

from __future__ import annotations

from dataclasses import dataclass

from textual.binding import Binding


@dataclass(frozen=True)
class Key:
    """`keys` are Textual's names, the first is shown. A key with `footer` False is told only by the help."""

    keys: str
    action: str
    label: str
    help: str
    shown: str = ""
    footer: bool = True
    priority: bool = False

    @property
    def name(self) -> str:
        """The key as it stands on the keyboard."""
        return self.shown or self.keys.split(",")[0]


_BACK = Key("escape", "back", "back", "Back; nothing that was answered is lost", "esc")
_HELP = Key("f1,question_mark", "help", "help", "This page (F1, or ? where nothing is typed)", "F1")
_QUIT = Key("ctrl+q", "app.quit", "quit", "Leave; a training that runs goes on", "^q", priority=True)

#: The keys of each screen, the most wanted first; at most five are in the footer.
SCREENS: dict[str, tuple[Key, ...]] = {
    "welcome": (
        Key("enter", "choose", "open", "Open what is marked"),
        Key("n", "new", "new", "A new training: the questions"),
        Key("r", "refresh", "refresh", "Look for presets and runs again", footer=False),
        _HELP, _QUIT,
    ),
    "questions": (
        Key("enter", "submit", "next", "Take this answer and go on"),
        _BACK,
        Key("f2,a", "advice", "advice", "All decisions, why, and how sure (F2, or a where nothing is typed)", "F2"),
        Key("f3", "browse", "browse", "Choose a file or folder, where a path is asked for", "F3", footer=False),
        Key("f4", "default", "default", "Take back what you typed: the default again", "F4", footer=False),
        Key("f5", "review", "review", "To the review: all other questions keep their defaults", "F5", footer=False),
        _HELP, _QUIT,
    ),
    "advice": (
        Key("c", "compare", "compare", "NCCL and Gloo side by side; on a CPU one process and several"),
        Key("escape,q,f2", "back", "back", "Back", "esc"),
        _QUIT,
    ),
    "comparison": (Key("escape,q,c", "back", "back", "Back to the advice", "esc"), _QUIT),
    "help": (Key("escape,q,f1", "back", "back", "Back", "esc"), _QUIT),
    "review": (
        Key("enter", "launch", "launch", "Start the training and watch it"),
        Key("s", "save", "save", "Save the preset under a name"),
        Key("e", "edit", "edit", "Back to the questions, to the first one with a problem"),
        Key("d", "dry_run", "dry run", "Show the command, the environment and every resolved value; starts nothing"),
        Key("escape", "back", "back", "Back to the questions", "esc"),
        Key("f2,a", "advice", "advice", "All decisions, why, and how sure", "F2", footer=False),
        Key("f1,question_mark", "help", "help", "This page", "F1", footer=False),
        Key("ctrl+q", "app.quit", "quit", "Leave", "^q", footer=False, priority=True),
    ),
    "dry-run": (Key("escape,q,d", "back", "back", "Back", "esc"), _QUIT),
    "save": (
        Key("enter", "submit", "save", "Save"),
        Key("escape", "back", "cancel", "Save nothing", "esc"),
    ),
    "browse": (
        Key("enter", "open", "take the file", "Take the marked file, or open the marked folder"),
        Key("f3", "take", "take this folder", "Take the marked folder itself", "F3"),
        Key("backspace", "up", "folder above", "Show the folder above"),
        Key("escape", "back", "cancel", "Change nothing", "esc"),
    ),
    "monitor": (
        Key("q,escape", "leave", "leave", "Leave the monitor; asks first whether the training goes on"),
        Key("s", "stop", "stop", "Stop the training with a checkpoint; again to stop at once"),
        Key("l", "logs", "logs", "The logs, large; again for the overview"),
        Key("c", "charts", "charts", "The charts, large; again for the overview"),
        Key("f1,question_mark", "help", "help", "This page", "?"),
        Key("left_square_bracket", "other_log(-1)", "log before", "The log of the rank before", "[", footer=False),
        Key("right_square_bracket", "other_log(1)", "next log", "The log of the next rank", "]", footer=False),
        Key("f", "follow", "follow", "Follow the log, or hold it still", footer=False),
        Key("ctrl+q", "app.quit", "quit", "Leave without a question; the training goes on", "^q", footer=False, priority=True),
    ),
    "problem": (Key("escape,enter,q", "back", "close", "Close", "esc"), _QUIT),
}


def bindings(screen: str) -> list[Binding]:
    """What a screen puts into its BINDINGS."""
    return [Binding(key.keys, key.action, key.label, show=key.footer, key_display=key.name, tooltip=key.help,
                    id=f"{screen}.{key.action}", priority=key.priority) for key in SCREENS[screen]]
