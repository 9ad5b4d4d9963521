// JSON read so that nothing of it is lost: a number that a browser would change keeps its text, and
// a member that is repeated is there as often as it was sent.

// A value that is shown as this text: a number, bytes, an extension.
export class Shown {
  constructor(text) { this.text = text; }
}

// The members of an object: [name, value], repeated ones included.
export class Members {
  constructor(entries) {
    const counts = new Map();
    for (const [name] of entries) counts.set(name, (counts.get(name) ?? 0) + 1);
    this.entries = entries.map(([name, value]) => [counts.get(name) > 1 ? new Shown(`${name} (there ${counts.get(name)} times)`) : name, value]);
  }
}

const BLANKS = /[ \t\r\n]*/y;
const TEXT = /"[^"\\]*(?:\\.[^"\\]*)*"/y;
const WORD = /[^\s,\]}]+/y;

class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  // Step over what the pattern matches here; return it.
  take(pattern) {
    pattern.lastIndex = this.at;
    const [found] = pattern.exec(this.text);
    this.at += found.length;
    return found;
  }

  next() {
    this.take(BLANKS);
    return this.text[this.at];
  }

  // Read the parts of a list or of an object, up to its end.
  parts(end, read) {
    const found = [];
    this.at += 1;
    while (this.next() !== end) {
      if (this.text[this.at] === ",") { this.at += 1; this.next(); }
      found.push(read());
    }
    this.at += 1;
    return found;
  }

  member() {
    const name = JSON.parse(this.take(TEXT));
    this.next();
    this.at += 1; // the colon
    return [name, this.value()];
  }

  value() {
    const first = this.next();
    if (first === "{") return new Members(this.parts("}", () => this.member()));
    if (first === "[") return this.parts("]", () => this.value());
    if (first === '"') return JSON.parse(this.take(TEXT));
    const word = this.take(WORD);
    const value = JSON.parse(word);
    return typeof value === "number" && String(value) !== word ? new Shown(word) : value;
  }
}

// Return the value of this text; throw SyntaxError if it is no JSON, RangeError if it is too deep.
export function readJson(text) {
  JSON.parse(text); // the reader takes it to be valid
  return new Reader(text).value();
}
