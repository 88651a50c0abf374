// Package bench measures agentbox as its users see it: whole processes from their start to their
// end, in homes of its own. In the user's home it only adds the image and the kernel that it
// needed, and it leaves no box, process or directory behind. It knows agentbox only by its command
// line and its JSON. What measures its parts against other programs is tools/lab, which uses the
// scenarios, runner and reports of this package.
//
// A scenario is one thing to measure. A sample is one measurement of it, in milliseconds or bytes.
// The ceiling is what a failed sample counts as, so that a failure is never better than a success.
// A baseline is a scenario that another is compared with. Both are measured in the same run,
// alternating sample by sample, so that other load on the machine affects both.
//
// A Lab makes scenarios of boxes (Enter, Work) and is where they run. Select picks scenarios, a
// Runner takes the samples, and a Report presents the results to people (WriteTable) or programs
// (WriteJSON, Schema). A Run puts these together, for the verbs of `agentbox bench` (agentbox/cli).
// docs/internals/benchmarks.md has figures, and says how each was measured.
//
// Every scenario keeps three rules. Anything that is not the subject (building an image, running a
// process for the first time, removing the last sample's box) happens outside of the measured time.
// A sample proves that what it measured really happened. What can be observed from outside, such as
// processes and memory, is not asked of agentbox.
//
// Labs lock their directories, and remove those of benchmarks that were killed. One scenario is
// measured at a time; nothing here is safe for concurrent use unless it says so.
package bench
