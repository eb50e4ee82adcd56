"""The versions of a model and the pointer to its champion, in a folder of the object store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from container_training.work.models.champion import (
    Author,
    ChampionPointer,
    Change,
    Reading,
    promoted,
    rolled_back,
)
from container_training.work.models.looks import Looks, judged
from container_training.work.models.promotion import Contender, Decision, PromotionRule
from container_training.work.models.versions import ModelVersion
from training_api.errors import ChampionMoved, EditConflict, ModelUnknown, ObjectChanged
from training_api.job.packages.pinned_uri import split_pinned

if TYPE_CHECKING:
    from container_training.work.object_store import ObjectStore

POINTER = "champion.json"
LOOKS = "looks.json"
VERSION = "version.json"
_MAX_JSON_BYTES = 4 * 1024 * 1024
_MAX_OBJECTS = 100_000
_JSON = "application/json"
#: Those who decide at the same moment are few, and each round one of them is through.
_JUDGE_ATTEMPTS = 20
_Kept = TypeVar("_Kept", bound=BaseModel)


class RegistryMirror(Protocol):
    """
    Another registry that shows what is in this one.

    It decides nothing; each call may be repeated.
    """

    def show_version(self, version: ModelVersion) -> None:
        """Make the mirror have ``version``."""

    def show_champion(self, read: Callable[[], Reading]) -> None:
        """Make the mirror's champion the one that ``read`` returns, also if that changes meanwhile."""

    def forget_version(self, version_id: str) -> None:
        """Remove a version from the mirror, if it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """
    What became of a change of the champion.

    :param is_new: false if an earlier try of the same task had made it.
    """

    pointer: ChampionPointer
    generation: int
    change: Change
    is_new: bool


class ModelRegistry:
    """
    One model in a folder: the pointer, the looks and the versions.

    ``FOLDER/champion.json``, ``FOLDER/looks.json``, and ``FOLDER/versions/ID/`` with the model's file and
    ``version.json``.

    :param mirror: another registry that follows; the pointer alone decides who is champion.
    """

    def __init__(self, store: ObjectStore, folder: str, mirror: RegistryMirror | None = None) -> None:
        self._store = store
        self.folder = folder.rstrip("/")
        self._mirror = mirror

    @property
    def pointer_uri(self) -> str:
        """Where the pointer is."""
        return f"{self.folder}/{POINTER}"

    @property
    def looks_uri(self) -> str:
        """Where the decisions and the number of looks are."""
        return f"{self.folder}/{LOOKS}"

    def read(self) -> Reading:
        """Return the pointer. :raises ModelUnknown: it cannot be understood."""
        remedy = "restore an older generation of it, or delete it and promote again"
        pointer, generation = self._read(self.pointer_uri, ChampionPointer, remedy)
        return Reading(pointer=pointer, generation=generation)

    def judge(
        self,
        challenger: Contender,
        champion: Contender | None,
        rule: PromotionRule,
        *,
        champion_generation: int,
    ) -> Decision:
        """
        Decide, and keep the decision with the look that it took, by one atomic write.

        The same comparison has the same decision, and takes one look.

        :param champion_generation: of the pointer that named the champion; 0 if there was none.
        :raises EvaluationInvalid: the two cannot be compared; nothing is written.
        :raises ModelUnknown: the looks cannot be understood.
        :raises EditConflict: others decide all the time.
        """
        for _ in range(_JUDGE_ATTEMPTS):
            looks, generation = self._read_looks()
            after, decision = judged(
                looks, challenger, champion, rule, champion_generation=champion_generation
            )
            if after == looks:
                return decision
            try:
                self._store.write_if(
                    self.looks_uri, after.model_dump_json(indent=2).encode(), _JSON, generation=generation
                )
            except ObjectChanged:
                continue  # somebody else decided; or the answer to our own write was lost
            return decision
        raise EditConflict(
            f"{self.looks_uri} was changed {_JUDGE_ATTEMPTS} times by others; decide again later"
        )

    def judged_version(self, manifest_uri: str) -> str | None:
        """
        Return the id of a version from this snapshot that was decided about, or ``None``.

        Champions count: those of before decisions were kept have none.

        :raises ModelUnknown: the pointer or the looks cannot be understood.
        """
        if judgement := self._read_looks()[0].of_snapshot(manifest_uri):
            return judgement.decision.challenger
        pointer = self.read().pointer
        champions = [pointer.champion, *pointer.previous] if pointer else []
        manifest = split_pinned(manifest_uri)[0]
        return next(
            (each.version_id for each in champions if split_pinned(each.snapshot_uri or "")[0] == manifest),
            None,
        )

    def _read_looks(self) -> tuple[Looks, int]:
        remedy = "restore an older generation of it; without it the looks at the hold-out are counted anew"
        looks, generation = self._read(self.looks_uri, Looks, remedy)
        return looks or Looks(), generation

    def _read(self, uri: str, kind: type[_Kept], remedy: str) -> tuple[_Kept | None, int]:
        found = self._store.read_version(uri, _MAX_JSON_BYTES)
        if found is None:
            return None, 0
        content, generation = found
        try:
            return kind.model_validate_json(content), generation
        except ValidationError as error:
            raise ModelUnknown(
                f"{uri}#{generation} cannot be understood, and is left as it is; {remedy}: "
                f"{error.errors(include_url=False, include_input=False)[0]['msg']}"
            ) from error

    def register(self, version: ModelVersion, source: str) -> ModelVersion:
        """
        Keep a copy of the model at ``source``, and return the version with it.

        An equal version that exists is returned.

        :param source: address of the model, with its generation.
        :raises ObjectChanged: that generation is gone, or the version is there with another model.
        """
        uri = self._version_uri(version.version_id)
        folder = uri.removesuffix(f"/{VERSION}")
        name = source.partition("#")[0].rpartition("/")[2]
        kept = version.model_copy(update={"model": self._store.copy(source, f"{folder}/{name}")})
        try:
            self._store.write_if(uri, kept.model_dump_json(indent=2).encode(), _JSON, generation=0)
        except ObjectChanged:
            present = self.find(version.version_id)
            if present is None or (present.model, present.image) != (kept.model, kept.image):
                raise
            kept = present
        if self._mirror:
            self._mirror.show_version(kept)
        return kept

    def note_vertex_model(self, version_id: str, name: str) -> ModelVersion:
        """
        Add to a version its name in Vertex AI's Model Registry, and return it.

        The call may be repeated.

        :raises ModelUnknown: there is no such version, or it cannot be understood.
        :raises ObjectChanged: another writer added another name at this very moment.
        """
        uri = self._version_uri(version_id)
        version, generation = self._read(uri, ModelVersion, "register it again under another version_id")
        if version is None:
            raise ModelUnknown(f"there is no version at {uri}; register it again")
        if version.vertex_model == name:
            return version
        noted = version.model_copy(update={"vertex_model": name})
        try:
            self._store.write_if(uri, noted.model_dump_json(indent=2).encode(), _JSON, generation=generation)
        except ObjectChanged:
            # Another try of the task was first, or our own write succeeded and its answer was lost.
            if self.find(version_id) != noted:
                raise
        return noted

    def find(self, version_id: str) -> ModelVersion | None:
        """Return a version, or ``None``."""
        content = self._store.read(self._version_uri(version_id), _MAX_JSON_BYTES)
        return None if content is None else ModelVersion.model_validate_json(content)

    def _version_uri(self, version_id: str) -> str:
        return f"{self.folder}/versions/{version_id}/{VERSION}"

    def versions(self) -> list[ModelVersion]:
        """Return all versions, the oldest first."""
        files, _ = self._store.list_files(f"{self.folder}/versions/", _MAX_OBJECTS)
        names = [file.uri.split("/")[-2] for file in files if file.uri.endswith(f"/{VERSION}")]
        found = [version for name in names if (version := self.find(name)) is not None]
        return sorted(found, key=lambda version: (version.created_at, version.version_id))

    def delete_version(self, version_id: str) -> None:
        """Delete a version, here and in the mirror."""
        if self._mirror:
            self._mirror.forget_version(version_id)
        self._store.delete_folder(f"{self.folder}/versions/{version_id}")

    def promote(self, challenger: ModelVersion, author: Author, *, generation: int) -> Changed:
        """
        Make ``challenger`` the champion by one atomic write.

        Only if the pointer is still at ``generation``.

        :param generation: of the pointer when the challenger was compared with the champion; 0 if there was
            none.
        :raises ChampionMoved: somebody changed the champion since.
        :raises ModelUnknown: the challenger's model is not there any more.
        """
        reading = self.read()
        if own := _own(reading, author):
            return self._shown(own)
        if reading.generation != generation:
            raise self._moved(reading, generation)
        if self._store.find(challenger.model_uri) is None:
            raise ModelUnknown(
                f"the model of version {challenger.version_id!r} is not at {challenger.model_uri}; register "
                "it again"
            )
        return self._write(promoted(reading.pointer, challenger, author), generation, author)

    def roll_back(self, author: Author, *, expected: str | None = None) -> Changed:
        """
        Make the previous champion the champion again. One atomic write.

        :param expected: version id that is to be rolled back.
        :raises ModelUnknown: there is none to go back to.
        :raises ChampionMoved: the champion is another one than ``expected``, or was changed at this very
            moment.
        """
        reading = self.read()
        if own := _own(reading, author):
            return self._shown(own)
        pointer = rolled_back(reading.pointer, author, expected=expected)
        if self._store.find(pointer.champion.model_uri) is None:
            raise ModelUnknown(
                f"the model of the previous champion is not at {pointer.champion.model_uri}; promote another "
                "version"
            )
        return self._write(pointer, reading.generation, author)

    def _write(self, pointer: ChampionPointer, generation: int, author: Author) -> Changed:
        try:
            written = self._store.write_if(
                self.pointer_uri, pointer.model_dump_json(indent=2).encode(), _JSON, generation=generation
            )
        except ObjectChanged as error:
            # Either somebody else was first, or our own write succeeded and its answer was lost.
            reading = self.read()
            if own := _own(reading, author):
                return self._shown(own)
            raise self._moved(reading, generation) from error
        return self._shown(
            Changed(pointer=pointer, generation=written, change=pointer.changes[-1], is_new=True)
        )

    def _shown(self, changed: Changed) -> Changed:
        if self._mirror:
            self._mirror.show_champion(self.read)
        return changed

    def _moved(self, reading: Reading, generation: int) -> ChampionMoved:
        now = f"{reading.champion.version_id!r}" if reading.champion else "nobody"
        last = reading.pointer.changes[-1].by if reading.pointer and reading.pointer.changes else "somebody"
        return ChampionMoved(
            f"{self.pointer_uri} was changed by {last} since it was read: it must be at generation "
            f"{generation}, and is at "
            f"{reading.generation}, with {now} as the champion. Nothing was changed; compare with this "
            "champion"
        )


def _own(reading: Reading, author: Author) -> Changed | None:
    """Return the change that an earlier try of the same task made, if it is remembered."""
    change = reading.pointer.change_of(author.change_id) if reading.pointer else None
    if change is None or reading.pointer is None:
        return None
    return Changed(pointer=reading.pointer, generation=reading.generation, change=change, is_new=False)
