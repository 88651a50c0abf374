// Package tasks serves the calls about tasks, and gives the queue (package task) what it needs of boxes:
// jobs, kept work and snapshots, artifacts, evidence and checks. It decides nothing about when a task
// runs.
package tasks
