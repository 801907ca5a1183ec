"""Whether groups and shards make a plan: each node id in exactly one group, each group in exactly one shard. Pure."""

from __future__ import annotations

import re
from collections import Counter

from shardlib.errors import PlanError
from shardlib.fields import short
from shardlib.model import CPU_SHARD, Group, Mode, Shard

AGAIN = "make the plan again: shardlib plan"


def check_tests(groups: tuple[Group, ...]) -> None:
    """Raises PlanError unless each id is well formed and each node id is in exactly one group."""
    if not groups:
        raise PlanError("the plan has no tests: collect some first")
    seen: dict[str, str] = {}
    for group in groups:
        if not re.fullmatch(r"g[0-9]{5,9}", group.id):
            raise PlanError(f"group {short(group.id)}: a group's id is 'g' and at least five digits")
        if not group.tests:
            raise PlanError(f"group {group.id} has no tests; {AGAIN}")
        if (group.mode is Mode.CPU) != (group.gpus == 0):
            raise PlanError(f"group {group.id}: mode {group.mode.value!r} with {group.gpus} GPUs; {AGAIN}")
        for test in group.tests:
            if test.id in seen:
                raise PlanError(
                    f"node id {short(test.id)} is in group {seen[test.id]} and again in {group.id}; {AGAIN}"
                )
            seen[test.id] = group.id


def check_shards(shards: tuple[Shard, ...], groups: dict[str, Group]) -> None:
    """Raises PlanError unless each group is in exactly one shard, of its kind and wide enough."""
    names = Counter(shard.name for shard in shards)
    owner: dict[str, str] = {}
    for shard in shards:
        if not re.fullmatch(rf"[0-9]{{2,9}}|{CPU_SHARD}", shard.name) or names[shard.name] > 1 or not shard.groups:
            raise PlanError(
                f"shard {short(shard.name)}: a shard has its own name (two digits or more) and groups; {AGAIN}"
            )
        for name in shard.groups:
            group = groups.get(name)
            if group is None:
                raise PlanError(f"shard {shard.name} names a group {short(name)} that does not exist; {AGAIN}")
            if name in owner:
                raise PlanError(f"group {name} is in shard {owner[name]} and again in {shard.name}; {AGAIN}")
            if shard.is_cpu != (group.mode is Mode.CPU) or group.width > shard.slots:
                raise PlanError(
                    f"group {name} ({group.mode.value}, {group.gpus} GPUs) does not fit shard {shard.name} "
                    f"of {shard.slots} slots; {AGAIN}"
                )
            owner[name] = shard.name
    lost = sorted(set(groups) - set(owner))
    if lost:
        raise PlanError(f"group {lost[0]} is in no shard (and {len(lost) - 1} more); {AGAIN}")
