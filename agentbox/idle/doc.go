// Package idle decides when this machine works for others of its team: never, until its owner allows
// it (agentbox idle allow), and then when nobody needs it. It measures, and decides by a pure function
// (Decide); it runs nothing and ends nothing.
//
// A fact that cannot be had (a kernel without PSI, no logind, no battery) is nil and holds nothing up:
// a server has neither keyboard nor lid.
package idle
