// What a page needs later, such as what draws.

const PAUSE_MS = 300;

/**
 * Import the module at `path`, which starts from this folder; once more if the browser dropped the request (see theme.js).
 * Under its first address a browser keeps the failure, so the second time it has another one.
 */
export async function late(path) {
  try {
    return await import(path);
  } catch {
    await new Promise((done) => setTimeout(done, PAUSE_MS));
    return import(`${path}?again=${Date.now()}`);
  }
}
