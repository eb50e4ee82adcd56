"""
A pasted command, split as a shell would split it.

Nothing is ever executed or looked up.

What only a shell could know - ``$(date)``, ``${BUCKET}`` - stays in the words as a mark that stands for it.
Variables that the same text assigns (``BUCKET=gs://mine``) are put in their places: that is text, too.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from training_api.errors import InvalidCommand

#: Characters of Unicode's private use, which stand around the number of a shell part.
_OPEN, _CLOSE = "\ue000", "\ue001"
_MARK = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")
_PROMPT = re.compile(r"\A\s*(?:%%(?:bash|sh|shell)[^\n]*\n)?\s*(?:[$%>!]\s*)?(?=\S)")
#: The end of a line that goes on: as in a shell, in PowerShell and in cmd.exe; blanks after it are a slip in
#: pasting.
_CONTINUED = re.compile(r"[\\^`][ \t]*\r?\n")
_NAME = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_BRACED_NAME = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SPECIAL = re.compile(r"\$[0-9?@*#!$-]")
_REDIRECTION = re.compile(r"[0-9]*(?:>>?|<<?<?)\s*(?:&[0-9-]|\S+)")
_SEPARATOR = re.compile(r"[;\n]|&&?|\|\|?")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_CLOSERS = {"(": ")", "{": "}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellPart:
    """
    A part of a word whose value only a shell knows.

    :param text: as it was written: ``$(date +%s)``.
    :param name: of the variable, if it is nothing more than one; else empty.
    :param where: it was written, as a person reads it.
    :param default: the value that it has if nobody sets one; ``None``: unknown.
    """

    text: str
    name: str = ""
    where: str = "in the shell"
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellText:
    """
    What was pasted.

    :param statements: the words of each command, in their order; assignments are no words.
    :param parts: what the marks in the words stand for, by number.
    """

    statements: Sequence[Sequence[str]]
    parts: Sequence[ShellPart]

    def parts_of(self, text: str) -> list[ShellPart]:
        """Return the shell parts in ``text``."""
        return [self.parts[int(number)] for number in _MARK.findall(text)]

    def as_written(self, text: str) -> str:
        """Return ``text`` with its shell parts as they were written."""
        return _MARK.sub(lambda mark: self.parts[int(mark[1])].text, text)

    def replaced(self, text: str, values: Mapping[ShellPart, str]) -> str:
        """Return ``text`` with a value for each of its shell parts; other text is left as it is."""
        return _MARK.sub(lambda mark: values[self.parts[int(mark[1])]], text)


def has_mark(message: str) -> bool:
    """Whether a message shows a part, as it is or as ``repr`` writes it. Pure."""
    return _OPEN in message or repr(_OPEN)[1:-1] in message


def mark(number: int) -> str:
    """Return the mark of the part ``number``. Pure."""
    return f"{_OPEN}{number}{_CLOSE}"


def literal_pieces(text: str) -> list[str]:
    """
    Return ``text`` cut at its marks: text, mark, text, mark ... Pure.

    Without marks it is one piece.
    """
    return re.split(f"({_OPEN}[0-9]+{_CLOSE})", text)


def read_shell_text(text: str) -> ShellText:
    """
    Return the commands in ``text``.

    Continued lines are joined; comments, prompts and redirections are left out.

    Pure.

    :raises InvalidCommand: a quote or a bracket is not closed.
    """
    scanner = _Scanner(re.sub(f"[{_OPEN}{_CLOSE}]", "", _PROMPT.sub("", text, count=1)).replace("\r\n", "\n"))
    scanner.scan()
    variables: dict[str, str] = {}
    statements = []
    for raw in scanner.statements:
        words = [_substituted(word, scanner.parts, variables) for word in _split(raw)]
        if words[:1] == ["export"]:
            words = words[1:]
        while words and (assigned := _ASSIGNMENT.fullmatch(words[0])):
            variables[assigned[1]] = assigned[2]
            words = words[1:]
        if words:
            statements.append(words)
    return ShellText(statements=statements, parts=scanner.parts)


def _split(raw: str) -> list[str]:
    try:
        return shlex.split(raw, posix=True)
    except ValueError as error:
        raise InvalidCommand(
            f"the command cannot be split into words: {error}; was all of it pasted?"
        ) from error


def _substituted(word: str, parts: Sequence[ShellPart], variables: Mapping[str, str]) -> str:
    def value(mark: re.Match[str]) -> str:
        return variables.get(parts[int(mark[1])].name, mark[0])

    return _MARK.sub(value, word)


@dataclass(slots=True)
class _Scanner:
    """
    Cuts text into commands, and puts marks where only a shell knows the value.

    Quotes stay for ``shlex``.
    """

    text: str
    statements: list[str] = field(default_factory=list)
    parts: list[ShellPart] = field(default_factory=list)
    at: int = 0
    quote: str = ""
    current: str = ""

    def scan(self) -> None:
        while self.at < len(self.text):
            is_literal = self.quote == "'"
            if is_literal or not (self._escape() or self._shell_part() or self._unquoted()):
                self._literal()
        self._end()

    def _literal(self) -> None:
        character = self.text[self.at]
        if character == self.quote:
            self.quote = ""
        elif not self.quote and character in "'\"":
            self.quote = character
        self._take(1, character)

    def _take(self, length: int, kept: str) -> None:
        self.at += length
        self.current += kept

    def _end(self) -> None:
        if self.current.strip():
            self.statements.append(self.current)
        self.current = ""

    def _escape(self) -> bool:
        if continued := _CONTINUED.match(self.text, self.at):
            self._take(len(continued[0]), "")
            return True
        if self.text[self.at] != "\\" or self.at + 1 >= len(self.text):
            return False
        character = self.text[self.at + 1]
        if self.quote and character in "$`":
            # shlex keeps the backslash within quotes before these, a shell does not.
            self._take(2, character)
        else:
            self._take(2, f"\\{character}")
        return True

    def _shell_part(self) -> bool:
        rest = self.text[self.at : self.at + 2]
        if rest in ("$(", "${"):
            length = _closed_length(self.text, self.at + 1) + 1
        elif rest.startswith("`"):
            end = self.text.find("`", self.at + 1)
            if end < 0:
                raise InvalidCommand("the command has a ` that is not closed; was all of it pasted?")
            length = end + 1 - self.at
        elif found := _NAME.match(self.text, self.at) or _SPECIAL.match(self.text, self.at):
            length = len(found[0])
        else:
            return False
        written = self.text[self.at : self.at + length]
        name = _NAME.fullmatch(written) or _BRACED_NAME.fullmatch(written)
        self.parts.append(ShellPart(text=written, name=name[1] if name else ""))
        self._take(length, mark(len(self.parts) - 1))
        return True

    def _unquoted(self) -> bool:
        """Take a comment, a redirection or the end of a command, which are none within quotes."""
        if self.quote:
            return False
        is_at_word_start = not self.current or self.current[-1].isspace()
        if self.text[self.at] == "#" and is_at_word_start:
            end = self.text.find("\n", self.at)
            self._take((end if end >= 0 else len(self.text)) - self.at, "")
            return True
        if (is_at_word_start or self.text[self.at] in "<>") and (
            redirection := _REDIRECTION.match(self.text, self.at)
        ):
            self._take(len(redirection[0]), "")
            return True
        if separator := _SEPARATOR.match(self.text, self.at):
            self._take(len(separator[0]), "")
            self._end()
            return True
        return False


def _closed_length(text: str, start: int) -> int:
    """
    Return the length of the bracket that opens at ``start``, both ends included.

    Brackets within it are counted.
    """
    opener = text[start]
    closer = _CLOSERS[opener]
    depth = 0
    for place in range(start, len(text)):
        if text[place] == opener:
            depth += 1
        elif text[place] == closer:
            depth -= 1
            if not depth:
                return place + 1 - start
    raise InvalidCommand(f"the command has a ${opener} that is not closed; was all of it pasted?")
