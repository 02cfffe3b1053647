"""Records of CUPTI: graphs and their nodes."""
