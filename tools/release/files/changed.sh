# The units have changed. Nothing is started, stopped or enabled: a node's pods do not notice an installation.
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
