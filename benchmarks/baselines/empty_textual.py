from textual.app import App
from textual.widgets import Static


class Empty(App):
    def compose(self):
        yield Static("autotrain-wizard")


Empty().run()
