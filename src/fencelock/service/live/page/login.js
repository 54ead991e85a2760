// The login: a token is pasted, and kept for this tab only.

import { html, useLayoutEffect, useRef, useState } from "./html.js";
import { connection, isLoggedIn, logIn, useStatus } from "./live.js";

export function Login() {
  useStatus();
  const input = useRef(null);
  const [typed, setTyped] = useState("");
  useLayoutEffect(() => input.current.focus(), []);
  const busy = connection.phase === "connecting";
  const submit = (event) => {
    event.preventDefault();
    if (typed.trim()) logIn(typed.trim());
  };
  return html`<main class="login" data-part="login">
    <form onSubmit=${submit} aria-labelledby="login-title">
      <h1 id="login-title">Fencelock</h1>
      <p>This service needs a token. It is kept in this tab only, and forgotten when the tab is closed.</p>
      <label class="field">Token
        <input ref=${input} type="password" name="token" autocomplete="off" autocapitalize="off" spellcheck="false" value=${typed}
          aria-describedby="login-trouble" onInput=${(event) => setTyped(event.target.value)} /></label>
      <p id="login-trouble" role="alert" class="bad-text">${trouble(busy)}</p>
      <div class="buttons"><button type="submit" class="primary" disabled=${!typed.trim() || busy}>${busy ? "Asking …" : "Log in"}</button></div>
    </form>
  </main>`;
}

/** Why the last token did not do. The first visit is no trouble. */
function trouble(busy) {
  if (connection.phase === "lost") return connection.detail;
  return isLoggedIn() && !busy ? connection.refused : "";
}
