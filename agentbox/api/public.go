package api

import "reflect"

// Concern is what a public call is about. It decides which tokens of one project may make it.
type Concern string

const (
	AboutMachine  Concern = "machine"  // no token of one project
	AboutAnything Concern = "anything" // any token: the answer is of no project
	AboutBox      Concern = "box"      // BoxRef names a box, or a task
	AboutTask     Concern = "task"     // TaskRef, or ArtifactRef
	AboutCheckout Concern = "checkout" // Directory, in the request or its Spec
	AboutBoxes    Concern = "boxes"    // a list of boxes, of which a token gets its project's
	AboutTasks    Concern = "tasks"    // a list of tasks
)

// PublicCall is a call that other programs may make, at `agentbox serve`.
type PublicCall struct {
	Path    string
	Scope   Scope
	Concern Concern
	Doc     string // what it does, in one sentence
	Bytes   bool   // the answer is bytes, not a Response
	Request reflect.Type
	// Response is nil if Bytes.
	Response reflect.Type
}

func public[Req, Resp any](e Endpoint[Req, Resp], s Scope, c Concern, doc string) PublicCall {
	return PublicCall{Path: e.Path, Scope: s, Concern: c, Doc: doc, Request: reflect.TypeFor[Req](), Response: reflect.TypeFor[Resp]()}
}

func publicBytes[Req any](d Download[Req], s Scope, c Concern, doc string) PublicCall {
	return PublicCall{Path: d.Path, Scope: s, Concern: c, Doc: doc, Bytes: true, Request: reflect.TypeFor[Req]()}
}

// Public lists the calls that other programs may make; every other is for the command line alone.
// Not public are calls that return keys (Connect), that read or write other files of this machine
// or run its programs (Pull, ExportImage, SetSecret), that need a client of the same build (RunTask,
// the streams of sources), and those about the team and the daemon itself.
func Public() []PublicCall {
	return []PublicCall{
		public(Status, ScopeRead, AboutAnything, "What runs here."),
		public(ShowResources, ScopeRead, AboutAnything, "What boxes may use of this machine."),
		publicBytes(Changes, ScopeRead, AboutAnything, "A line each time that boxes or tasks may have changed."),

		public(ListBoxes, ScopeRead, AboutBoxes, "All boxes, oldest first."),
		public(ShowBox, ScopeRead, AboutBox, "One box with its usage."),
		public(PlanUp, ScopeRead, AboutCheckout, "What up would do; nothing is done."),
		public(Up, ScopeRun, AboutCheckout, "Create or find the box of a checkout, and make sure that it runs."),
		public(RunInBox, ScopeRun, AboutBox, "Run a command in a box to its end."),
		public(ReadFile, ScopeRun, AboutBox, "A part of a file of a box."),
		public(WriteFile, ScopeRun, AboutBox, "Replace or make a file of a box."),
		public(Pause, ScopeRun, AboutBox, "Save a box's machine to disk and end it."),
		public(Resume, ScopeRun, AboutBox, "Continue a paused box, or start a stopped one."),
		public(Fork, ScopeRun, AboutBox, "Copy a box with its memory and workspace."),
		public(Checkpoint, ScopeRun, AboutBox, "Save a box to return to it later."),
		public(Rollback, ScopeRun, AboutBox, "Return a box to a checkpoint; what was done since is lost."),
		public(Reset, ScopeRun, AboutBox, "Replace the machine by a new one; the workspace stays."),
		public(Remove, ScopeRun, AboutBox, "Remove a box with its workspace and checkpoints, even if work is lost."),
		public(OpenPort, ScopeRun, AboutBox, "Forward a port of a box to this machine's loopback."),
		public(ClosePort, ScopeRun, AboutBox, "End a forwarding."),
		public(Label, ScopeRun, AboutBox, "Write on a box what a program wants to know of it later."),
		public(Bind, ScopeRun, AboutBox, "Change what a program bounds a box to; its policy decides what is allowed within."),
		public(Diff, ScopeRead, AboutBox, "What changed in a box or task since it began."),
		public(Unsaved, ScopeRead, AboutBox, "What only a box has, and removing it would lose."),
		publicBytes(BoxLog, ScopeRead, AboutBox, "The console of a box's machine, or its supervisor's log."),

		public(StartJob, ScopeRun, AboutBox, "Start a command in a box that goes on by itself; a second start with the same ID starts nothing."),
		public(ListJobs, ScopeRead, AboutBox, "The jobs of a box."),
		public(ShowJob, ScopeRead, AboutBox, "One job."),
		publicBytes(JobLog, ScopeRead, AboutBox, "What a job wrote, and writes."),
		public(SignalJob, ScopeRun, AboutBox, "Send a signal to a job."),
		public(RemoveJob, ScopeRun, AboutBox, "Remove the record of a job that has ended."),

		public(SubmitTasks, ScopeRun, AboutCheckout, "Queue tasks."),
		public(ListTasks, ScopeRead, AboutTasks, "Tasks, oldest first."),
		public(ShowTask, ScopeRead, AboutTask, "One task with its timeline."),
		public(WaitTask, ScopeRead, AboutTask, "Answer when a task has ended."),
		public(CancelTask, ScopeRun, AboutTask, "End a task."),
		public(RetryTask, ScopeRun, AboutTask, "Repeat a task that has ended, as a new one."),
		public(RemoveTask, ScopeRun, AboutTask, "Remove a task that has ended, with its evidence."),
		public(SourceOfTask, ScopeRun, AboutMachine, "Make of what a task left a source, of which up makes a box."),
		publicBytes(TaskLog, ScopeRead, AboutTask, "What the last attempt of a task wrote, once that has ended."),
		public(ListArtifacts, ScopeRead, AboutTask, "What a task left."),
		publicBytes(ReadArtifact, ScopeRead, AboutTask, "The bytes of one artifact."),

		public(ShowPolicy, ScopeRead, AboutBox, "What a box may do, and what waits for approval."),
		public(CheckPolicy, ScopeRead, AboutBox, "The decision about a URL, without sending anything."),
		publicBytes(AuditLog, ScopeRead, AboutBox, "What a box tried to reach, one JSON object a line."),
		public(VerifyAudit, ScopeRead, AboutBox, "Check that this log is whole."),
		public(ChangePolicy, ScopeAdmin, AboutMachine, "Change the user's rules; running boxes follow at once."),
		public(ApprovePolicy, ScopeAdmin, AboutMachine, "Approve exactly what has a digest."),

		public(ShowMesh, ScopeRead, AboutMachine, "This machine's part in its team, and what is sent or received now."),
		public(ListPeers, ScopeRead, AboutMachine, "The machines of the team, with what was sent to each and received from it."),
		public(ListTeam, ScopeRead, AboutMachine, "The work of each machine of the team, as that reports it."),
		public(ListBenchmarks, ScopeRead, AboutMachine, "The last benchmark of each directory, newest first."),

		public(ListImages, ScopeRead, AboutMachine, "All images here."),
		public(ShowImage, ScopeRead, AboutMachine, "One image."),
		public(RemoveImage, ScopeAdmin, AboutMachine, "Remove an image that no box uses."),
		public(Prune, ScopeAdmin, AboutMachine, "Remove what is no longer needed."),
		public(Doctor, ScopeAdmin, AboutMachine, "Check this machine."),
	}
}
