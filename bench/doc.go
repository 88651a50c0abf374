// Package bench measures agentbox as its users see it: whole processes from their start to their
// end, in homes of its own. It changes nothing in the user's home but to add the image and the
// kernel it needed, and it leaves no box, process or directory behind. It knows agentbox by its
// command line and its JSON alone, but for the store and the mesh, which are measured without a
// daemon.
//
// Words. A scenario is one thing to measure; a sample is one measurement of it, in milliseconds or
// bytes; the ceiling is what a failed sample counts as, so that a failure is never better than a
// success. A baseline is a scenario that another is compared with, measured in the same run, one
// sample of each in turn: whatever else the machine does falls on both. A peer is another program
// that does the same.
//
// A lab is where scenarios run, and makes them: Lab for boxes (Enter, Work, Agents, Tasks,
// Network), LazyLab for images that are elsewhere, StoreLab for the store, MeshLab for the exchange
// between machines. Select picks scenarios, a Runner takes the samples, a Report has what was
// found, for people (WriteTable) or programs (WriteJSON, Schema). `agentbox bench` puts that
// together (agentbox/cli); docs/internals/benchmarks.md has figures, and what each was measured
// with.
//
// What every scenario keeps to: what is not the thing itself (an image to build, a process that is
// run for the first time, the removal of the last sample's box) is done outside of the measured
// time; what is measured is proved to have happened; nothing is asked of agentbox that can be seen
// from outside, as processes and memory are.
//
// Labs lock their directories, and remove those of benchmarks that were killed. One scenario is
// measured at a time; nothing here is for several goroutines unless it says so.
package bench
