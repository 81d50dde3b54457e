"""Parts of the benchmark `attack_peers`: networks and images, attacks, credit, records, statistics, and the page."""
