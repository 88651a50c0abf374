// Package jobs serves the calls about what runs in boxes: jobs, which continue without a daemon, and single
// commands and files for programs without SSH. It keeps no state: package job and the supervisors do.
package jobs
