package environment

import (
	"os"
	"syscall"
)

// signalNumbers are Linux's, as the command runs there whatever this host is.
var signalNumbers = map[string]int{
	"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9, "USR1": 10, "SEGV": 11,
	"USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15, "STKFLT": 16, "CHLD": 17, "CONT": 18, "STOP": 19, "TSTP": 20,
	"TTIN": 21, "TTOU": 22, "URG": 23, "XCPU": 24, "XFSZ": 25, "VTALRM": 26, "PROF": 27, "WINCH": 28, "IO": 29,
	"PWR": 30, "SYS": 31,
}

// signalNames are the host's signals that make sense to pass on. SIGKILL cannot be caught: it is
// for callers that send one themselves. SIGWINCH is missing, as sizes travel separately
// (PTY.Resize).
var signalNames = map[os.Signal]string{
	syscall.SIGHUP: "HUP", syscall.SIGINT: "INT", syscall.SIGQUIT: "QUIT", syscall.SIGTERM: "TERM", syscall.SIGUSR1: "USR1",
	syscall.SIGUSR2: "USR2", syscall.SIGALRM: "ALRM", syscall.SIGABRT: "ABRT", syscall.SIGPIPE: "PIPE",
	syscall.SIGCONT: "CONT", syscall.SIGTSTP: "TSTP", syscall.SIGKILL: "KILL",
}

// killed is the status of a command that a signal ended. An unknown name counts as SIGKILL, as it
// was a violent end.
func killed(name string) Status {
	n, ok := signalNumbers[name]
	if !ok {
		n = signalNumbers["KILL"]
	}
	return Status{Code: 128 + n, Signal: name}
}
