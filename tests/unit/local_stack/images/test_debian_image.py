from dataclasses import replace

from local_stack.images.debian_image import DebianRecipe


def test_the_name_changes_with_everything_that_the_image_contains() -> None:
    recipe = DebianRecipe()
    changed = [
        replace(recipe, packages=("python3",)),
        replace(recipe, removed=()),
        replace(recipe, environment={}),
        replace(recipe, authorities=b"bundle"),
        replace(recipe, authorities=b"another bundle"),
    ]

    names = {recipe.image_name(), *(other.image_name() for other in changed)}

    assert len(names) == 6
    assert DebianRecipe().image_name() == recipe.image_name()


def test_pip_trusts_the_copied_authorities() -> None:
    assert not any("PIP_CERT" in change for change in DebianRecipe().changes())
    assert "ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt" in DebianRecipe(authorities=b"bundle").changes()
