package vmm

import "os/exec"

// systemDirectories end in a slash, since a program's name is appended.
var systemDirectories = []string{"/usr/sbin/", "/sbin/"}

// FindProgram is exec.LookPath, and then looks where distributions keep programs for root (mke2fs
// and its kind), which an ordinary user may run though PATH leaves them out. The error is
// exec.LookPath's own when the program is nowhere.
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
