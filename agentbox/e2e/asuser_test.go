package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// userName is the name of the ordinary user that scripts may use.
var userName = fmt.Sprint("ab-e2e-", os.Getpid())

// makingUser serializes scripts that need the user at the same time.
var makingUser sync.Mutex

// cmdAsUser runs a command as an ordinary user. The first call makes the user. The first call of a
// script changes the owner of the script's directory and home, so the script must not share its
// home.
func cmdAsUser(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) > 0, "[!] asuser CMD...")
	makeUser(ts)
	argv := append([]string{"--reuid=" + userName, "--regid=" + userName, "--init-groups", "--"}, args...)
	if err := ts.Exec("setpriv", argv...); (err != nil) != neg {
		ts.Fatalf("as %s: %v", userName, err)
	}
}

// removeUser removes the user, if makeUser has made it.
func removeUser() error {
	if exec.Command("id", userName).Run() != nil {
		return nil
	}
	if out, err := exec.Command("userdel", userName).CombinedOutput(); err != nil {
		return fmt.Errorf("userdel: %w\n%s", err, out)
	}
	return nil
}

func makeUser(ts *testscript.TestScript) {
	must := func(argv ...string) {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			ts.Fatalf("%s: %v\n%s", argv[0], err, out)
		}
	}
	makingUser.Lock()
	defer makingUser.Unlock()
	if exec.Command("id", userName).Run() != nil {
		must("useradd", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/bin/sh", userName)
	}
	if ts.Getenv("ASUSER") == "" {
		must("chown", "-R", userName+":", ts.Getenv("AGENTBOX_HOME"), ts.Getenv("WORK"))
		ts.Setenv("ASUSER", userName)
	}
}
