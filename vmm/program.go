package vmm

import "os/exec"

// systemDirectories are where distributions keep programs that an ordinary user's PATH leaves out,
// and may run.
var systemDirectories = []string{"/usr/sbin/", "/sbin/"}

// FindProgram is exec.LookPath, and looks there too.
func FindProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	for _, dir := range systemDirectories {
		if err == nil {
			break
		}
		if found, ferr := exec.LookPath(dir + name); ferr == nil {
			path, err = found, nil
		}
	}
	return path, err
}
