# Runs steps with a Perl library: `perl cache_memcached.pl CLASS HOST:PORT`; lines as in steps.py.
use strict;
use warnings;

my ($class, $server) = @ARGV;
eval "require $class; 1" or die $@;
$| = 1;
my $client;

my %native = (
    text   => "h\xc3\xa9llo",
    number => 17,
    list   => ["a", 1],
    long   => "x" x 100_000,
);

sub made {
    return $class->new({servers => [$server], compress_threshold => 0, select_timeout => 12})
        if $class eq 'Cache::Memcached';
    return $class->new({servers => [$server], io_timeout => 30, compress_threshold => -1})
        if $class eq 'Cache::Memcached::Fast';
    return $class->new({servers => [$server], behavior_poll_timeout => 30_000});
}

# What its users write: the class and the server.
sub plain { return $class->new({servers => [$server]}) }

sub shown {
    my ($found, $number) = @_;
    return 'none' unless defined $found;
    my $hex = unpack('H*', $found);
    $hex = '-' if $hex eq '';
    return "value $hex" . (defined $number ? " $number" : '');
}

sub step {
    my ($verb, $key, @rest) = @_;
    if ($verb eq 'new') { $client = made(); return 'ok' }
    my $native = $verb eq 'native';
    return 'lacks' unless $native || $client->can($verb);
    return shown($client->get($key)) if $verb eq 'get';
    if ($verb eq 'gets') {
        my $found = $client->gets($key);
        return defined $found ? shown($found->[1], $found->[0]) : 'none';
    }
    if ($native) { return plain()->set($key, $native{$rest[0]}) ? 'true' : 'false' }
    my $done;
    if ($verb eq 'delete') { $done = $client->delete($key) }
    elsif ($verb eq 'touch') { $done = $client->touch($key, $rest[0]) }
    else {
        my $body = $rest[0] eq '-' ? '' : pack('H*', $rest[0]);
        $done = $verb eq 'cas' ? $client->cas($key, $rest[1], $body) : $client->$verb($key, $body);
    }
    return $done ? 'true' : 'false';
}

while (my $line = <STDIN>) {
    my $answer = eval { step(split ' ', $line) };
    $answer = "error $@" unless defined $answer;
    $answer =~ s/\s+/ /g;
    print "$answer\n";
}
