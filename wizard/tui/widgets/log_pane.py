"""The log of one rank, followed; never read as markup."""

from __future__ import annotations

from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Label, Log, Select

MOST_LINES = 5_000
#: In place of a rank: what the launcher wrote.
LAUNCHER = -1


class LogPane(Vertical):
    """A line with the rank to choose, and the end of its log below."""

    DEFAULT_CSS = """
    LogPane { height: 1fr; min-height: 2; }
    LogPane > Horizontal { height: 1; padding: 0 1; }
    LogPane > Horizontal > Label { width: auto; color: $text-muted; }
    LogPane > Horizontal > Select { width: 18; margin: 0 2 0 1; }
    LogPane > Horizontal > #log-follow { width: 1fr; }
    LogPane > Log { height: 1fr; padding: 0 1; background: transparent; scrollbar-size: 0 1; }
    LogPane > Log:focus { background: transparent; }
    """

    @dataclass
    class Chosen(Message):
        """Another rank's log is wanted (LAUNCHER for the launcher's)."""

        rank: int

    def __init__(self, id: str | None = None):
        super().__init__(id=id)
        self.rank = 0
        self.follow = True
        self._written = False
        self._ranks: tuple[int, ...] = ()

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Label("log of", markup=False)
            yield Select([("rank 0", 0)], value=0, allow_blank=False, compact=True, id="log-rank")
            yield Label("", markup=False, id="log-follow")
        yield Log(highlight=False, max_lines=MOST_LINES, auto_scroll=True, id="log-lines")

    def on_mount(self) -> None:
        self._tell()

    def offer(self, ranks: tuple[int, ...]) -> None:
        """The ranks whose logs can be chosen."""
        if ranks and ranks != self._ranks:
            self._ranks = ranks
            select = self.query_one("#log-rank", Select)
            with self.prevent(Select.Changed):
                select.set_options([(f"rank {rank}", rank) for rank in ranks] + [("the launcher", LAUNCHER)])
                select.value = self.rank if self.rank in (*ranks, LAUNCHER) else ranks[0]

    def choose(self, rank: int) -> None:
        """Show the log of `rank` from now on."""
        if rank == self.rank:
            return
        self.rank = rank
        self.query_one("#log-lines", Log).clear()
        self._written = False
        self._tell()
        select = self.query_one("#log-rank", Select)
        if rank in (*self._ranks, LAUNCHER):
            with self.prevent(Select.Changed):
                select.value = rank
        self.post_message(self.Chosen(rank))

    def choose_next(self, by: int) -> None:
        choices = (*self._ranks, LAUNCHER)
        at = choices.index(self.rank) if self.rank in choices else 0
        self.choose(choices[(at + by) % len(choices)])

    def add(self, rank: int, lines: list[str]) -> None:
        """Append lines of `rank`; those of another than the chosen one are dropped."""
        if lines and rank == self.rank:
            log = self.query_one("#log-lines", Log)
            # the line end before each line but the first, so that no empty line takes the last row
            log.write(("\n" if self._written else "") + "\n".join(lines))
            if not self._written:
                self._written = True
                self._tell()
            self._to_end()

    def set_follow(self, follow: bool) -> None:
        self.follow = follow
        log = self.query_one("#log-lines", Log)
        log.auto_scroll = follow
        self._to_end()
        self._tell()

    def on_resize(self) -> None:
        self._to_end()

    def _to_end(self) -> None:
        """The layout may just be changing, so the end is looked for after it."""
        if self.follow:
            self.call_after_refresh(self.query_one("#log-lines", Log).scroll_end, animate=False)

    def _tell(self) -> None:
        words = "following" if self.follow else "held (f follows)"
        if not self._written:
            words = "nothing written yet"
        self.query_one("#log-follow", Label).update(f"{words} · [ ] other rank")

    @on(Select.Changed, "#log-rank")
    def _chosen(self, event: Select.Changed) -> None:
        event.stop()
        if isinstance(event.value, int):
            self.choose(event.value)
