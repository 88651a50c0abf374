// Package handover hands boxes and tasks to members of the team who may enter them, takes their work
// back, and brings contexts of others here. Who may enter what is decided by package contexts.
package handover
