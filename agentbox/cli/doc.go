// Package cli is the command line: one file per verb, each a thin layer over api.Client. It prints
// for people, or JSON for programs, and knows nothing of how boxes work: it must not import the
// host, the drivers, the store or the mesh (agentbox/imports_test.go), so that every verb works
// from wherever the daemon's socket can be reached.
//
// Main is the whole program; main.go calls it. A run of it is an app, which has the standard
// streams, so that tests run it in their own process. Each verb is a method of app that returns a
// cli.Command: its flags, its words of help, and an Action that reads the command line, makes one
// call to the daemon (call, in client.go) and reports what came back (report.go). A command in a
// box goes another way: the daemon only says where the box's SSH server listens, and session.go
// talks to that, so that a daemon that ends interrupts nobody.
//
// What is written where is part of the contract with scripts: results go to standard output, one
// fact, table or JSON document; progress, notes and errors go to standard error. --quiet leaves ids
// only, --json facts only. An error is one line, with a hint in a second one where something can be
// done. The exit code is that of the command in the box where there is one, 125 when agentbox
// itself failed, and what the verb's help says otherwise.
//
// Whatever a box, a repository, a peer or a registry wrote is printed through oneLine, table or
// report, which let nothing through that a terminal would act on. Transcripts and logs, which the
// user asked for as they are, are the exception.
package cli
