# why: parallel test runners
# out: use --isolation microvm
cat >many.c <<'EOF'
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
	int n = 0;
	setpgid(0, 0);
	while (n < 10000) {
		pid_t p = fork();
		if (p == 0) { pause(); _exit(0); }
		if (p < 0) break;
		n++;
	}
	if (n < 10000) perror("fork");
	if (n < 10000) printf("only %d processes\n", n);
	fflush(stdout);
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	while (wait(0) > 0) ;
	return n < 10000;
}
EOF
cc -o many many.c && exec ./many 2>&1
