"""The configuration: the settings, their parser, and the messages on mistakes.

      declared     settings that a client declares for a queue: to the same models, and back to text
      changed      which settings a reload changes
      reading      file, environment and flags, to one `Config`; every mistake at once
        plain_file a file that an operator names, if it is a regular one
        archives   where segments may be archived
        keying     the key settings: which fields, and their contradictions
        chains     where items go from queue to queue
        settings   the models; the settings in force for a queue
          aliases    names for several queues
            queue_settings  a line for each setting of a queue; what fan-out children share
              kinds      the allowed values
                retaining  how long completed items stay readable
          schedules  what is enqueued, where, and when
            mistakes one sentence per problem

One rule: the modules of this package import each other downwards only; all others import from here.
"""

from kestrelpy.config.archives import make_archives
from kestrelpy.config.chains import Cycle, find_cycle, targets_of
from kestrelpy.config.changed import changed_settings
from kestrelpy.config.declared import as_toml, read_declaration, settings_in_force, stored_block
from kestrelpy.config.mistakes import ConfigError
from kestrelpy.config.plain_file import read_plain
from kestrelpy.config.queue_settings import TARGETS, QueueBlock, QueueSettings
from kestrelpy.config.reading import FILE_NAME, SYSTEM_FILE, find_config_file, load_config
from kestrelpy.config.schedules import ScheduleBlock
from kestrelpy.config.settings import Config, FleetConfig, JournalConfig, ServerConfig, place_of

__all__ = [
    "FILE_NAME", "SYSTEM_FILE", "TARGETS", "Config", "ConfigError", "Cycle",
    "FleetConfig", "JournalConfig", "QueueBlock", "QueueSettings", "ScheduleBlock", "ServerConfig",
    "as_toml", "changed_settings", "find_config_file", "find_cycle", "load_config", "make_archives",
    "place_of", "read_declaration", "read_plain", "settings_in_force", "stored_block", "targets_of",
]  # fmt: skip
