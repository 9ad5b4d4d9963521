"""Programs to read and to copy from. `producer` and `worker` need nothing but pymemcache."""
