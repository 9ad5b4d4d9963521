<?php
// Runs steps with PHP's Memcached: `php memcached.php LIBRARY HOST:PORT`; lines as in steps.py.

function made(string $server): Memcached
{
    [$host, $port] = explode(':', $server);
    $client = new Memcached();
    $client->setOption(Memcached::OPT_COMPRESSION, false);
    $client->setOption(Memcached::OPT_POLL_TIMEOUT, 30000);
    $client->addServer($host, (int) $port);
    return $client;
}

function done(Memcached $client, bool $done): string
{
    $code = $client->getResultCode();
    $refused = [Memcached::RES_NOTSTORED, Memcached::RES_NOTFOUND, Memcached::RES_DATA_EXISTS];
    if ($done || in_array($code, $refused, true)) {
        return $done ? 'true' : 'false';
    }
    return "error $code " . $client->getResultMessage() . ': ' . $client->getLastErrorMessage();
}

function shown(Memcached $client, mixed $found): string
{
    if ($client->getResultCode() !== Memcached::RES_SUCCESS) {
        // A refused get says NOT FOUND as well: only the message of the server tells.
        $said = $client->getLastErrorMessage();
        return str_contains($said, '_ERROR') ? "error $said" : (
            $client->getResultCode() === Memcached::RES_NOTFOUND ? 'none' : "error $said");
    }
    $hex = bin2hex(is_array($found) ? (string) $found['value'] : (string) $found);
    return 'value ' . ($hex === '' ? '-' : $hex) . (is_array($found) ? ' ' . $found['cas'] : '');
}

function native(string $kind): mixed
{
    return ['text' => 'héllo', 'number' => 17, 'list' => ['a', 1],
            'long' => str_repeat('x', 100000)][$kind];
}

$client = null;
while (($line = fgets(STDIN)) !== false) {
    $words = explode(' ', trim($line));
    [$verb, $key] = [$words[0], $words[1] ?? ''];
    $body = fn (int $at): string => $words[$at] === '-' ? '' : hex2bin($words[$at]);
    switch ($verb) {
        case 'new':
            $client = made($argv[2]);
            $answer = 'ok';
            break;
        case 'get':
            $answer = shown($client, $client->get($key));
            break;
        case 'gets':
            $answer = shown($client, $client->get($key, null, Memcached::GET_EXTENDED));
            break;
        case 'cas':
            $answer = done($client, $client->cas((int) $words[3], $key, $body(2)));
            break;
        case 'delete':
            $answer = done($client, $client->delete($key));
            break;
        case 'touch':
            $answer = done($client, $client->touch($key, (int) $words[2]));
            break;
        case 'native':
            $plain = new Memcached();
            [$host, $port] = explode(':', $argv[2]);
            $plain->addServer($host, (int) $port);
            $answer = done($plain, $plain->set($key, native($words[2])));
            break;
        default:
            $answer = done($client, $client->$verb($key, $body(2)));
    }
    echo $answer, "\n";
    flush();
}
