from .report import check_report_path as check_report_path
from .report import write_report as write_report
