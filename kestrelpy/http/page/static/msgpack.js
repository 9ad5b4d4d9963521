// MessagePack read into values that the tree of a body shows. Every length is checked against the
// bytes that are left, so that a body that lies costs nothing.

import { Members, Shown } from "./json.js";

const DEPTH_MAX = 64;

class Reader {
  constructor(data) {
    this.data = data;
    this.view = new DataView(data.buffer, data.byteOffset, data.byteLength);
    this.at = 0;
  }

  // Throw if so many bytes are not left.
  check(size) { if (size > this.data.length - this.at) throw new RangeError("the bytes end"); }

  take(size) {
    this.check(size);
    this.at += size;
    return this.at - size;
  }

  bytes(size) { return this.data.subarray(this.take(size), this.at); }
  length(size) { const at = this.take(size); return size === 1 ? this.view.getUint8(at) : size === 2 ? this.view.getUint16(at) : this.view.getUint32(at); }
  text(size) { return new TextDecoder("utf-8", { fatal: true }).decode(this.bytes(size)); }
  hex(size) { return [...this.bytes(size).subarray(0, 64)].map((each) => each.toString(16).padStart(2, "0")).join(" "); }
  blob(size) { return new Shown(`${size} bytes: ${this.hex(size)}${size > 64 ? " …" : ""}`); }
  ext(size) { const kind = this.view.getInt8(this.take(1)); return new Shown(`extension ${kind}, ${size} bytes: ${this.hex(size)}`); }

  list(count, depth) {
    this.check(count);
    return Array.from({ length: count }, () => this.value(depth + 1));
  }

  map(count, depth) {
    this.check(count * 2);
    return new Members(Array.from({ length: count }, () => [this.value(depth + 1), this.value(depth + 1)]));
  }

  big(value) { return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : new Shown(String(value)); }

  value(depth) {
    if (depth > DEPTH_MAX) throw new RangeError("too deep");
    const { view } = this;
    const byte = this.length(1);
    if (byte < 0x80) return byte;
    if (byte < 0x90) return this.map(byte & 15, depth);
    if (byte < 0xa0) return this.list(byte & 15, depth);
    if (byte < 0xc0) return this.text(byte & 31);
    if (byte >= 0xe0) return byte - 256;
    switch (byte) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: case 0xc5: case 0xc6: return this.blob(this.length(1 << (byte - 0xc4)));
      case 0xc7: case 0xc8: case 0xc9: return this.ext(this.length(1 << (byte - 0xc7)));
      case 0xca: return view.getFloat32(this.take(4));
      case 0xcb: return view.getFloat64(this.take(8));
      case 0xcc: case 0xcd: case 0xce: return this.length(1 << (byte - 0xcc));
      case 0xcf: return this.big(view.getBigUint64(this.take(8)));
      case 0xd0: return view.getInt8(this.take(1));
      case 0xd1: return view.getInt16(this.take(2));
      case 0xd2: return view.getInt32(this.take(4));
      case 0xd3: return this.big(view.getBigInt64(this.take(8)));
      case 0xd4: case 0xd5: case 0xd6: case 0xd7: case 0xd8: return this.ext(1 << (byte - 0xd4));
      case 0xd9: case 0xda: case 0xdb: return this.text(this.length(1 << (byte - 0xd9)));
      case 0xdc: case 0xdd: return this.list(this.length(2 << (byte - 0xdc)), depth);
      case 0xde: case 0xdf: return this.map(this.length(2 << (byte - 0xde)), depth);
      default: throw new RangeError("a byte that MessagePack never has");
    }
  }
}

// Return the one value that these bytes are; throw RangeError or TypeError if they are not.
export function unpack(data) {
  const reader = new Reader(data);
  const value = reader.value(0);
  if (reader.at !== data.length) throw new RangeError("more bytes follow");
  return value;
}
