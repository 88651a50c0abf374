package vmm

import "os/exec"

var systemDirectories = []string{"/usr/sbin/", "/sbin/"}

// FindProgram is exec.LookPath, and then looks where distributions keep programs for root, such as
// mke2fs, which an ordinary user may run although PATH leaves them out. The error is that of
// exec.LookPath.
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
