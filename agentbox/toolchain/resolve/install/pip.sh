# Installs a program of the Python package index. $1 is NAME or NAME==VERSION.
# It gets an environment of its own, so that what it needs and what the repository needs do not meet; its commands are
# linked to /usr/local/bin.
dir=/opt/python-programs/${1%%==*}
rm -rf "$dir"
python3 -m venv "$dir"
"$dir/bin/pip" install --no-cache-dir --disable-pip-version-check --quiet "$1"
for program in "$dir"/bin/*; do
	case ${program##*/} in
	python* | pip* | activate* | Activate*) ;;
	*) ln -sf "$program" /usr/local/bin/ ;;
	esac
done
