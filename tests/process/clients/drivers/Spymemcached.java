// Runs steps with spymemcached: `Spymemcached LIBRARY HOST:PORT`; lines as in steps.py.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.logging.Level;
import java.util.logging.Logger;
import net.spy.memcached.AddrUtil;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.CachedData;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.transcoders.Transcoder;

public class Spymemcached {
  /** Bytes as they are, without flags. */
  static final class Bytes implements Transcoder<byte[]> {
    public boolean asyncDecode(CachedData data) { return false; }
    public CachedData encode(byte[] body) { return new CachedData(0, body, getMaxSize()); }
    public byte[] decode(CachedData data) { return data.getData(); }
    public int getMaxSize() { return 8 << 20; }
  }

  static final Bytes BYTES = new Bytes();
  static MemcachedClient client;

  static MemcachedClient made(String server) throws Exception {
    return new MemcachedClient(
        new ConnectionFactoryBuilder()
            .setShouldOptimize(false) // else gets that meet in the queue become one
            .setOpTimeout(30000)
            .build(),
        AddrUtil.getAddresses(server));
  }

  static byte[] body(String hex) {
    if (hex.equals("-")) { return new byte[0]; }
    byte[] found = new byte[hex.length() / 2];
    for (int at = 0; at < found.length; at++) {
      found[at] = (byte) Integer.parseInt(hex.substring(2 * at, 2 * at + 2), 16);
    }
    return found;
  }

  static String shown(byte[] found, String number) {
    if (found == null) { return "none"; }
    StringBuilder text = new StringBuilder("value ");
    for (byte each : found) { text.append(String.format("%02x", each)); }
    return text + (found.length == 0 ? "-" : "") + number;
  }

  static Object value(String kind) {
    switch (kind) {
      case "text": return "h\u00e9llo";
      case "number": return 17;
      case "long": return "x".repeat(100000);
      default: return new ArrayList<Object>(List.of("a", 1));
    }
  }

  static String step(String server, String[] words) throws Exception {
    String key = words.length > 1 ? words[1] : "";
    switch (words[0]) {
      case "new":
        if (client != null) { client.shutdown(); }
        client = made(server);
        return "ok";
      case "get": return shown(client.get(key, BYTES), "");
      case "gets":
        CASValue<byte[]> found = client.gets(key, BYTES);
        return found == null ? "none" : shown(found.getValue(), " " + found.getCas());
      case "cas":
        CASResponse said = client.cas(key, Long.parseLong(words[3]), body(words[2]), BYTES);
        return said == CASResponse.OK ? "true" : "false";
      case "set": return "" + client.set(key, 0, body(words[2]), BYTES).get();
      case "add": return "" + client.add(key, 0, body(words[2]), BYTES).get();
      case "append": return "" + client.append(0, key, body(words[2]), BYTES).get();
      case "delete": return "" + client.delete(key).get();
      case "touch": return "" + client.touch(key, Integer.parseInt(words[2])).get();
      case "native": return "" + client.set(key, 0, value(words[2])).get();
      default: return "lacks";
    }
  }

  public static void main(String[] words) throws Exception {
    System.setProperty(
        "net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SunLogger");
    Logger.getLogger("net.spy.memcached").setLevel(Level.OFF);
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String answer;
      try {
        answer = step(words[1], line.trim().split(" "));
      } catch (Exception error) {
        answer = "error " + error;
      }
      System.out.println(answer.replaceAll("\\s+", " "));
      System.out.flush();
    }
    System.exit(0);
  }
}
