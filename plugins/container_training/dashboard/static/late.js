// Modules that a page needs later, such as those that draw.

const PAUSE_MS = 300;
const asked = new Map();

/** Import the module at `path`, relative to this folder; after a failure the next call tries again. */
export function late(path) {
  if (!asked.has(path)) {
    const module = twice(path);
    asked.set(path, module);
    module.catch(() => asked.delete(path));
  }
  return asked.get(path);
}

// A browser may drop a request (see theme.js). It remembers the failure under the address, so the second time there is another one.
async function twice(path) {
  try {
    return await import(path);
  } catch {
    await new Promise((done) => setTimeout(done, PAUSE_MS));
    return import(`${path}?again=${Date.now()}`);
  }
}
