"""
Every cell of the kill table under the real scheduler, on real containers.

See ``table.py``. ``make test`` runs one phase of each column of the page; the others are extended tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import docker
import pytest

from tests.e2e.kill_table.campaign import Campaign
from tests.e2e.kill_table.stack import open_bed
from tests.e2e.kill_table.table import WITNESSES, Cell, cells
from tests.support.selection import cases, chosen_values

pytestmark = [pytest.mark.docker, pytest.mark.e2e, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def campaign(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    base_image: str,
    engine_client: docker.APIClient,
) -> Iterator[Campaign]:
    with open_bed(tmp_path_factory.mktemp("kill"), base_image, engine_client) as bed:
        campaign = Campaign(bed, chosen_values(request, "cell"))
        asyncio.run(campaign.run())
        yield campaign


@pytest.mark.parametrize(
    "cell", cases(cells(), witnesses=[cell for cell in cells() if cell.phase in WITNESSES]), ids=str
)
def test_what_happens_is_what_the_table_says(cell: Cell, campaign: Campaign) -> None:
    assert campaign.notes[cell] == []
    assert campaign.outcomes[cell] == cell.expected
