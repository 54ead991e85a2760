// Patterns as in the shell, the same as the service's rights use: `*`, `?`, `[abc]`, `[!abc]`. Pure.

const SPECIAL = /[.*+?^${}()|[\]\\/]/g;
const known = new Map();

/** The regular expression that matches all of a text, as Python's fnmatchcase does. */
export function pattern(text, flags = "su") {
  let made = "";
  for (let at = 0; at < text.length; at++) {
    const each = text[at];
    const end = each === "[" ? text.indexOf("]", at + (text[at + 1] === "!" ? 3 : 2)) : -1;
    if (each === "*") made += ".*";
    else if (each === "?") made += ".";
    else if (end > 0) {
      made += set(text.slice(at + 1, end));
      at = end;
    } else made += each.replace(SPECIAL, "\\$&");
  }
  try {
    return new RegExp(`^${made}$`, flags);
  } catch {
    return /(?!)/; // half typed, such as [z-a]: it matches nothing, as in Python
  }
}

function set(inside) {
  const negated = inside.startsWith("!");
  const characters = (negated ? inside.slice(1) : inside).replace(/[\\\]^[]/g, "\\$&");
  const last = characters.endsWith("-") ? `${characters.slice(0, -1)}\\-` : characters;
  const first = last.startsWith("-") ? `\\${last}` : last;
  return `[${negated ? "^" : ""}${first}]`;
}

/** Whether one of these patterns matches: how the service decides about a right. */
export function anyMatches(patterns, name) {
  return (patterns ?? []).some((each) => {
    if (each === "*") return true;
    if (!known.has(each)) known.set(each, pattern(each.normalize("NFC")));
    return known.get(each).test(name);
  });
}

/** A test of rows for what the reader has typed: a part of any text, or a pattern for all of one. */
export function search(typed) {
  const wanted = typed.trim().normalize("NFC").toLowerCase();
  if (!wanted) return null;
  if (!/[*?[]/.test(wanted)) return (row) => row.words.some((word) => word.includes(wanted));
  const expression = pattern(wanted);
  return (row) => row.words.some((word) => expression.test(word));
}
