# Runs steps with Ruby's dalli: `ruby dalli.rb LIBRARY HOST:PORT`; lines as in steps.py.
require 'dalli'

Dalli.logger.level = Logger::FATAL
$stdout.sync = true
server = ARGV[1]
options = { raw: true, compress: false, socket_timeout: 30 }
# Older versions speak the binary protocol and ignore this.
options[:protocol] = :meta if Gem::Version.new(Dalli::VERSION) >= Gem::Version.new('3.2')
native = { 'text' => 'héllo', 'number' => 17, 'list' => ['a', 1], 'long' => 'x' * 100_000 }
client = nil

shown = lambda do |found, number = nil|
  next 'none' if found.nil?

  hex = found.b.unpack1('H*')
  ['value', hex.empty? ? '-' : hex, number].compact.join(' ')
end

$stdin.each_line do |line|
  verb, key, *rest = line.split
  body = [rest[0].to_s.delete('-')].pack('H*')
  answer =
    begin
      case verb
      when 'new' then (client = Dalli::Client.new(server, options)) && 'ok'
      when 'get' then shown.call(client.get(key))
      when 'gets' then shown.call(*client.get_cas(key))
      when 'cas' then client.set_cas(key, body, rest[1].to_i) ? 'true' : 'false'
      when 'delete' then client.delete(key) ? 'true' : 'false'
      when 'touch' then client.touch(key, rest[0].to_i) ? 'true' : 'false'
      when 'native' then Dalli::Client.new(server).set(key, native[rest[0]]) ? 'true' : 'false'
      else client.public_send(verb, key, body) ? 'true' : 'false'
      end
    rescue StandardError => e
      "error #{e.class}: #{e.message}"
    end
  puts answer.gsub(/\s+/, ' ')
end
