package toolchain

// Workstation are the packages of a box whose repository names none: what every developer expects,
// and what compiles C, C++ and scripts. One image has them for all repositories of a release, so
// that what one of them asks for besides is added to it and nothing is built from the beginning.
var Workstation = []string{
	"autoconf", "automake", "build-essential", "bzip2", "ca-certificates", "cmake", "curl", "file", "git", "jq", "less",
	"libtool", "nano", "ninja-build", "openssh-client", "patch", "pkg-config", "procps", "python3", "python3-dev",
	"python3-pip", "python3-venv", "ripgrep", "rsync", "sudo", "unzip", "vim-tiny", "wget", "xz-utils", "zip", "zstd",
}
