"""Many processes, one data directory in an engine: its owner, its standbys, its moves."""

from journal.engine import SLICE
from kestrelpy.fleet.folder_files import files_below
from kestrelpy.fleet.member import FleetMember, why_other_layout
from kestrelpy.fleet.membership import NOT_LOOKED, Membership
from kestrelpy.fleet.move_in import (
    ImportingEngine,
    Moved,
    MoveIn,
    SliceNotEmpty,
    refuse_damage,
    remove_import,
)
from kestrelpy.fleet.move_out import MoveOut
from kestrelpy.fleet.patroni import NoPatroni, patroni_version, why_bad_patroni
from kestrelpy.fleet.shares import (
    GONE_AFTER,
    NOTES,
    ORPHANED_AFTER,
    attended,
    living,
    namesake_age_s,
    owned,
    plan,
    silent,
    surplus,
)
from kestrelpy.fleet.slice_folders import (
    RESLICE_NOTE,
    make_slice_folders,
    slice_of_folder,
    slices_in,
    why_other_slices,
    why_resliced,
)
from kestrelpy.fleet.unowned import SliceOwned, claim_unowned
from kestrelpy.fleet.view import (
    NOT_SLICED,
    FleetFacts,
    MemberFacts,
    SliceFacts,
    TakeoverFacts,
    member_facts,
    slice_facts,
    takeover_facts,
)

__all__ = [
    "GONE_AFTER", "NOTES", "NOT_LOOKED", "NOT_SLICED", "ORPHANED_AFTER", "RESLICE_NOTE", "SLICE",
    "FleetFacts", "FleetMember", "ImportingEngine", "MemberFacts", "Membership", "MoveIn",
    "MoveOut", "Moved", "NoPatroni", "SliceFacts", "SliceNotEmpty", "SliceOwned", "TakeoverFacts",
    "attended", "claim_unowned", "files_below", "living", "make_slice_folders", "member_facts",
    "namesake_age_s", "owned", "patroni_version", "plan", "refuse_damage", "remove_import",
    "silent", "slice_facts", "slice_of_folder", "slices_in", "surplus", "takeover_facts",
    "why_bad_patroni", "why_other_layout", "why_other_slices", "why_resliced",
]  # fmt: skip
