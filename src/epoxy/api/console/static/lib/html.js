// Preact and htm as one import. Templates are compiled by the browser's own parser of template literals: no eval.
import { h, render } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export const html = htm.bind(h);
export { render };
export { Component, Fragment } from "../vendor/preact.js";
export { useCallback, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "../vendor/hooks.js";
