// Signing in: the address that `landfall up` prints does it by itself; else a token is pasted once.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Problem, signIn, whoami } from "../lib/api";
import { go, place } from "../lib/router";
import { Wrong } from "../parts/basics";

export function SignIn(): JSX.Element {
  const [token, setToken] = useState("");
  const [error, setError] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const attempt = async (by: { code?: string; token?: string }): Promise<void> => {
    setBusy(true);
    setError(undefined);
    try {
      await signIn(by);
    } catch (wrong) {
      // Whoever opens an old address and is signed in already stays so.
      if (by.code) await whoami().catch(() => undefined);
      setError(wrong as Problem);
    }
    setBusy(false);
  };
  useEffect(() => {
    const [page, code] = place.value.path;
    if (page !== "sign-in" || !code) return;
    // The code leaves the address at once, and with it the history.
    go("#/", true);
    void attempt({ code });
  }, []);
  return (
    <main class="signin">
      <h1><img src="/favicon.svg" alt="" width="30" height="30" /> Landfall</h1>
      <form onSubmit={(event) => { event.preventDefault(); void attempt({ token: token.trim() }); }}>
        <label class="field">
          <span>Token</span>
          <input type="password" autocomplete="off" spellcheck={false} value={token} placeholder="lf_…" onInput={(event) => setToken(event.currentTarget.value)} />
        </label>
        <button type="submit" class="primary" disabled={busy || !token.trim()}>Sign in</button>
        <Wrong error={error} />
      </form>
      <p class="dim">On the machine where the server runs, <code>landfall board --open</code> signs you in without typing. Elsewhere ask whoever runs the server for a token.</p>
    </main>
  );
}
