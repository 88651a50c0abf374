package e2e

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/rogpeppe/go-internal/testscript"
)

// userName is the ordinary user's. One script needs one.
var userName = fmt.Sprint("ab-e2e-", os.Getpid())

// cmdAsUser runs a command as an ordinary user. The first time it makes the user and gives it the script's directory and
// home, which therefore must be the script's own.
func cmdAsUser(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) > 0, "[!] asuser CMD...")
	if exec.Command("id", userName).Run() != nil {
		makeUser(ts)
	}
	argv := append([]string{"--reuid=" + userName, "--regid=" + userName, "--init-groups", "--"}, args...)
	if err := ts.Exec("setpriv", argv...); (err != nil) != neg {
		ts.Fatalf("as %s: %v", userName, err)
	}
}

// removeUser undoes what makeUser did.
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
	home, work := ts.Getenv("AGENTBOX_HOME"), ts.Getenv("WORK")
	must := func(argv ...string) {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			ts.Fatalf("%s: %v\n%s", argv[0], err, out)
		}
	}
	must("useradd", "--no-create-home", "--home-dir", ts.Getenv("HOME"), "--shell", "/bin/sh", userName)
	must("chown", "-R", userName+":", home, work)
}
