// What the address says after its "#": which part of the page is shown. Pure, except for `useRoute`.

import { encoded } from "./api.js";
import { useEffect, useState } from "./html.js";

/** {view: "now", query} or {view: "lock", name} or {view: "whole"}. */
export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split("?", 2);
  if (path.startsWith("/lock/")) return { view: "lock", name: decoded(path.slice(6)) };
  if (path === "/whole") return { view: "whole" };
  return { view: "now", query: new URLSearchParams(query).get("q") ?? "" };
}

export function toLock(name) {
  return `#/lock/${encoded(name)}`;
}

export function toNow(query = "") {
  return query ? `#/?q=${encodeURIComponent(query.toWellFormed())}` : "#/";
}

export function useRoute() {
  const [route, go] = useState(() => parse(location.hash));
  useEffect(() => {
    const changed = () => go(parse(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // typed by hand
  }
}
