// Package source keeps what boxes and tasks are made from: trees with a digest, as they were when
// somebody asked. It makes no boxes and knows none; whoever needs a source says so (Collect).
//
// A source is a directory of the home that never changes:
//
//	<digest>/manifest        every file with mode, time and digest (manifest.go); its digest is the name
//	<digest>/tree/           a checkout: work tree and git directory, as workspace.Stage copies them
//	<digest>/notes           what was left out of it, and why
//	stamps/<checkout>        which files a checkout's last source was captured from (stamps.go)
//	.new-*                   a source that is being made
//
// Capture makes one from a checkout. It runs no filter, hook or program of the repository, for the
// copy is made by workspace.Stage. Files that have not changed since the last capture are hard
// links to that one's, and if nothing has changed nothing is made. Sources appear by a rename.
//
// A tree is a checkout like any other: workspace.Describe, config.LoadAt and project.Identify read
// it, and the project that it says it belongs to is that of the checkout that it was captured from.
// Nobody writes to it. A source is as trustworthy as a checkout, which may have come out of an
// archive; one that came from another machine (Import) is in addition self-contained.
//
// To bring a source to another machine, with the calls of agentbox/api (source.go there):
//
//	ref := CaptureSource{Directory}      here: capture the checkout; the answer is an agentbox.SourceRef
//	POST /v1/source/manifest?digest=D    here: what it consists of
//	POST /v1/source/missing              there: the manifest; the answer: digests of files not there
//	POST /v1/source/export?digest=D      here: those digests; the answer is a stream
//	POST /v1/source/import               there: the stream; the answer: the SourceRef, if digests are right
//	(or SendSource, a function of package api, which makes these four)
//	Up{Source: &ref}, SubmitTasks{Spec.Source: &ref}
//
// What was captured or imported stays for a while without anybody who needs it (Grace).
package source
