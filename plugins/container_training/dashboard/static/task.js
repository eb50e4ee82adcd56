// This page has nothing but the frame.
import "./shell.js";
