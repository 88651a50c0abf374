# why: AppImage, sshfs, rclone mount
# out: use --isolation microvm
test -c /dev/fuse && exec 3<>/dev/fuse || { echo "/dev/fuse cannot be opened"; exit 1; }
