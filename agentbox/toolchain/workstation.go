package toolchain

// Workstation lists the packages of a box whose repository names none: common tools of developers,
// and what compiles C, C++ and scripts. All repositories of a release share one image with them.
// Other packages that a repository asks for are added to that image, so that nothing is built from
// scratch.
var Workstation = []string{
	"autoconf", "automake", "build-essential", "bzip2", "ca-certificates", "cmake", "curl", "file", "git", "jq", "less",
	"libtool", "nano", "ninja-build", "openssh-client", "patch", "pkg-config", "procps", "python3", "python3-dev",
	"python3-pip", "python3-venv", "ripgrep", "rsync", "sudo", "unzip", "vim-tiny", "wget", "xz-utils", "zip", "zstd",
}
