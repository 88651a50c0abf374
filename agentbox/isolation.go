package agentbox

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Isolation names a kind of machine that runs a box.
type Isolation string

// The kinds of isolation. Auto appears only in requests, never in an answer.
const (
	Auto    Isolation = "auto"
	MicroVM Isolation = "microvm"
	GVisor  Isolation = "gvisor"
	// Container shares the host's kernel, so it isolates less than all others.
	Container Isolation = "container"
	// SSH is a directory of an account on another machine, on which nothing holds the network.
	SSH Isolation = "ssh"
	// Lima is no kind of box, but asks for one in this host's machine by Lima: the command line goes
	// there, and asks for Auto.
	Lima Isolation = "lima"
)

// Kind is what all code but a kind's own has to know of it. The zero Kind is none.
type Kind struct {
	Name Isolation
	// Auto: a box may get this kind without asking for it. HardwareOnly: only where it rests on
	// hardware virtualization; otherwise it is emulated, which is slow and isolates less.
	Auto, HardwareOnly bool
	// GPUs: its boxes can use GPUs of the host.
	GPUs bool
	// GuestKernel: it boots a kernel that agentbox provides.
	GuestKernel bool
	// DiskImage: its workspaces are disk images, not directories.
	DiskImage bool
	// Elsewhere: it is no machine of this host, so it has neither image nor template, and no jobs.
	Elsewhere bool
}

// Kinds is the table of all kinds, the strongest first. A new kind is a row here, and
// where it is made.
var Kinds = []Kind{
	{Name: MicroVM, Auto: true, HardwareOnly: true, GuestKernel: true, DiskImage: true},
	{Name: GVisor, Auto: true, GPUs: true},
	{Name: Container, GPUs: true},
	{Name: SSH, Elsewhere: true},
}

// AllGPUs is the number of GPUs of a box that has all of the host's.
const AllGPUs = -1

// GPUsText is a number of GPUs as a configuration has it.
func GPUsText(n int) string {
	if n == AllGPUs {
		return "all"
	}
	return strconv.Itoa(n)
}

// KindOf returns the row of a kind, or the zero Kind if there is none of this name.
func KindOf(name Isolation) Kind {
	for _, k := range Kinds {
		if k.Name == name {
			return k
		}
	}
	return Kind{}
}

// Isolations are the words that a request may use: auto, and the name of each kind.
func Isolations() []Isolation {
	all := []Isolation{Auto}
	for _, k := range Kinds {
		all = append(all, k.Name)
	}
	return all
}

// IsolationWords is the list of Isolations in a sentence.
func IsolationWords() string {
	var words []string
	for _, name := range Isolations() {
		words = append(words, string(name))
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// CheckMachine refuses what ssh would take for an option or a command, or not understand. A machine
// comes from a repository's configuration.
func CheckMachine(machine string) error {
	odd := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("@.-_:/[]%+", r)
	}
	if machine == "" {
		return Errorf(Invalid, "ssh isolation needs a machine").WithHint("set machine: to what ssh connects to, such as gpu or user@gpu")
	}
	option := func(word string) bool { return strings.HasPrefix(word, "-") }
	if slices.ContainsFunc(strings.FieldsFunc(machine, func(r rune) bool { return r == '@' || r == '/' }), option) || strings.ContainsFunc(machine, odd) {
		return Errorf(Invalid, "%q is not a machine that ssh connects to", Clip(machine)).WithHint("write it as ssh takes it: gpu, user@gpu or ssh://user@gpu:22")
	}
	return nil
}

// CheckIsolation returns Invalid for a word that is not in Isolations.
func CheckIsolation(name Isolation) error {
	if slices.Contains(Isolations(), name) {
		return nil
	}
	return Errorf(Invalid, "%q is not a kind of isolation", name).WithHint("use %s", IsolationWords())
}

// Alternative is a kind that isolates more than the one that a box gets, or is faster.
type Alternative struct {
	Kind     Isolation `json:"kind"`
	Stronger bool      `json:"stronger,omitempty"`
	Faster   bool      `json:"faster,omitempty"`
	// Missing is why it does not work on this host; "" where it is enough to ask for it.
	Missing string `json:"missing,omitempty"`
	Hint    string `json:"hint,omitempty"` // what to do about it
}

// Relation says how it compares with what a box gets.
func (a Alternative) Relation() string {
	switch {
	case a.Stronger && a.Faster:
		return "better"
	case a.Stronger:
		return "stronger"
	}
	return "faster"
}

// String says what it needs.
func (a Alternative) String() string {
	text := a.Ask()
	if a.Missing != "" {
		text = "it does not work here: " + a.Missing
	}
	if a.Hint != "" {
		text += " (" + a.Hint + ")"
	}
	return string(a.Kind) + ": " + text
}

// Ask is how to get it where it works.
func (a Alternative) Ask() string {
	if !KindOf(a.Kind).Auto {
		return "--isolation " + string(a.Kind) + ", for code that you trust"
	}
	return "--isolation " + string(a.Kind)
}

// Lack is something that a repository visibly needs and boxes of its kind do not have.
type Lack struct {
	What    string `json:"what"`
	File    string `json:"file"` // that shows it, relative to the repository's root
	Instead string `json:"instead"`
}

// LacksText is the line about what boxes of a kind lack, "" for nothing.
func LacksText(kind Isolation, lacks []Lack) string {
	var each []string
	for _, l := range lacks {
		each = append(each, fmt.Sprintf("%s (%s): %s", l.What, l.File, l.Instead))
	}
	if len(each) == 0 {
		return ""
	}
	return fmt.Sprintf("%s lacks what this repository seems to need: %s", kind, strings.Join(each, "; "))
}
