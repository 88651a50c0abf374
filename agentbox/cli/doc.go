// Package cli is the command line: one file per verb, each a thin layer over api.Client. It does
// not know how boxes work: it must not import the host, the drivers, the store or the mesh
// (agentbox/imports_test.go), so that every verb works wherever the daemon's socket can be reached.
//
// Main is the whole program; main.go calls it. One run is an app, which holds the standard streams,
// so that tests can run the program in their own process. Each verb is a method of app that returns
// a cli.Command: its flags, its help, and an Action. The Action reads the command line, makes one
// call to the daemon (call, in client.go) and reports the answer (report.go). A command in a box
// takes another path: the daemon only says where the box's SSH server listens, and session.go
// connects to that, so that the end of the daemon interrupts nobody.
//
// The output streams are part of the contract with scripts. Results go to standard output, as one
// fact, table or JSON document. Progress, notes and errors go to standard error. --quiet prints
// only IDs, --json only facts. An error is one line, with a hint on a second line if there is
// something to do. The exit code is that of the command in the box, if there is one; 125 if
// agentbox itself failed; and otherwise as the verb's help says.
//
// Text from a box, a repository, a peer or a registry is printed only through oneLine, table or
// report, which remove everything that a terminal would act on. The exception is transcripts and
// logs, which the user asked for unchanged.
package cli
