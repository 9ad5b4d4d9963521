"""The configuration: the settings, how they are read, and what is told of mistakes.

      declared     what a client declares for a queue, to the same models, and back to text
      reading      file, environment and flags, to one `Config`; every mistake at once
        archives   where segments may be archived
        keying     the key settings: which fields, and what contradicts what
        chains     where items go from queue to queue
        settings   the models; what is in force for a queue
          kinds      what each value may be
            retaining  how long what is done stays readable
          aliases    names for several queues
            children   fan-out children, and what they share with their parent
          schedules  what is put, where, and when
            mistakes one sentence per problem

One rule: the rooms inside import each other downwards only, and everybody else imports from here.
"""

from kestrelpy.config.archives import make_archives
from kestrelpy.config.chains import Circle, find_circle, targets_of
from kestrelpy.config.declared import as_toml, kept_block, read_declaration, settings_in_force
from kestrelpy.config.mistakes import ConfigError
from kestrelpy.config.reading import FILE_NAME, SYSTEM_FILE, find_config_file, load_config
from kestrelpy.config.schedules import ScheduleBlock
from kestrelpy.config.settings import (
    Config,
    JournalConfig,
    QueueBlock,
    QueueSettings,
    ServerConfig,
)

__all__ = [
    "FILE_NAME",
    "SYSTEM_FILE",
    "Circle",
    "Config",
    "ConfigError",
    "JournalConfig",
    "QueueBlock",
    "QueueSettings",
    "ScheduleBlock",
    "ServerConfig",
    "as_toml",
    "find_circle",
    "find_config_file",
    "kept_block",
    "load_config",
    "make_archives",
    "read_declaration",
    "settings_in_force",
    "targets_of",
]
